"""Contact: shapes as colliders, and their contact points. The friction solver is in the core."""
