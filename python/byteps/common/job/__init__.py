"""The job around this process: which one it is, under which launcher, and how the process ends."""
