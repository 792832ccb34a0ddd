"""`make docs-test`: the tutorial, typed as it stands into a new cluster; what it prints is judged.

The page is read by `page`, its commands go one after another into one shell (`shell`), what differs
from run to run is masked on both sides (`masks`), and `compare` says where the rest differs.
"""
