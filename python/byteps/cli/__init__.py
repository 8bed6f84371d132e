"""The commands `bps` and `bpslaunch`. Nothing here imports a framework."""
