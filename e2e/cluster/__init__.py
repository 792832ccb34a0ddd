"""A real three-node Kubernetes on one Debian machine, without Docker.

`python -m e2e.cluster up` starts etcd, the API server, the other control-plane
programs and three nodes (one containerd and one kubelet each) as ordinary
processes of this machine; `down` removes every trace of them. There is one
cluster a machine, whichever checkout started it: its addresses and firewall
rules are the machine's, so its state lies in fixed places outside any checkout
(`layout.py`).
"""
