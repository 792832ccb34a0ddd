"""A whole cluster in one thread and on one virtual clock: the real planner, the real operator
loop and the real brokers, with a network, disks, an API server and clients that are simulated.

The seed decides everything that is random, so a run with the same seed repeats exactly. Its number
decides what it may draw, so that older seeds stay as they were:

* from 1 on: faults of processes, networks, disks, clocks and the API server, and changes by users;
* from 1,000,001 on: also varied loads, and faults that were added later;
* from 3,000,001 on: also moves of replicas at random times;
* from 4,000,001 on: mainly moves, each of which is hit at one of its steps: cancelled, replaced, by
  the loss of a broker, of the operator or of a volume, or by a restore of etcd;
* from 5,000,001 on: also upkeep: throttles, placements, Rebalances, drained brokers and volumes;
* from 6,000,001 on: users who log in, changes of them, and some of the first faults;
* from 7,000,001 on: transactional producers of both generations, their faults, moves of their
  coordinators, and some of the first faults.
"""
