"""The process killed by test_realtime_cluster: a cluster that consumes until it is killed."""

import sys
import threading

from gamay.embedded import EmbeddedCluster

if __name__ == "__main__":
    EmbeddedCluster(sys.argv[1], 0, 0, 0, threads=1, warm_up=False).start()
    print("ready", flush=True)
    threading.Event().wait(60)
