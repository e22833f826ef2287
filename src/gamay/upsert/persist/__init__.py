"""What outlives the process: snapshots of valid docs, key files, and copies of both in the deep store. Start at `stored`."""
