"""Whether the cluster is as it should be: diagnosis, repair at start, damaged records, external views."""
