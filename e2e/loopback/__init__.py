"""Operator and brokers as processes of this machine, on a Kubernetes API without nodes.

It has its own etcd and kube-apiserver, an operator, and brokers that get from its objects what a
pod would get: ServiceAccount, Secret, configuration, arguments. Everything listens on loopback,
needs no root, touches no other cluster, and ends with the process that started it. So it can be
compared with three Kafka processes on the same network path, which pods do not have.

There are no nodes: no kubelet, no kube-proxy, no DNS. `nodes.py` reports the end of a process in
the kubelet's place.
"""
