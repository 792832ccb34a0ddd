"""`chiplog-broker`: the broker's command line."""

from chiplog_broker.main import main

main()
