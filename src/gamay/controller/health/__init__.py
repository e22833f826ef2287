"""The health of the cluster: diagnosis, repair at start, damaged records, external views."""
