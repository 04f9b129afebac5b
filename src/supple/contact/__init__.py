"""What touches: shapes in the core, general convex shapes by coal. The friction solver is in the core."""
