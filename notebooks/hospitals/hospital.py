"""One hospital's own process: declares its client, and answers the coordinator's messages.

    python hospital.py cleveland FOLDER SOCKET
    python hospital.py cleveland FOLDER 127.0.0.1:9000 KEYFILE

FOLDER holds the hospital's own file, and no other is read. This process alone sees the rows; what
it sends is listed in the docstring of ``dald_model.Site``. A port is for systems without Unix
sockets; who asks there needs the bytes of KEYFILE.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "app"))  # its own copy, not what Flower brings

from hospitals.task import declare

if __name__ == "__main__":
    name, folder, address, *key = sys.argv[1:]
    site = declare(name, folder)
    print(site, flush=True)
    if key:
        host, port = address.rsplit(":", 1)
        site.serve((host, int(port)), Path(key[0]).read_bytes())
    site.serve(address)
