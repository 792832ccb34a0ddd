"""Operator and brokers as processes of this machine, on a Kubernetes API without nodes.

An etcd and a kube-apiserver of their own, an operator, and brokers that get from its objects what
a pod would get: account, secret, configuration, arguments. Everything is on loopback, needs no
root, touches no other cluster, and ends with the process that started it. It stands beside Apache
Kafka's three processes on the same network path, which pods do not.

What it does not have is what nodes do: no kubelet, no kube-proxy, no DNS. `nodes.py` says in the
kubelet's place that a process ended, and when.
"""
