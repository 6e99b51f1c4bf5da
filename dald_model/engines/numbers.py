"""Numbers of messages, sessions and clients."""

import time
from itertools import count

NUMBERS = count(time.time_ns())
"""None comes twice, so that runs follow each other on one engine, and coordinators at one site."""
