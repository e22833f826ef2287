"""How each role is wired, joins its cluster, starts and leaves; each as a process of its own."""
