"""``python -m dald_model`` is the command ``dald``."""

from dald_model.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
