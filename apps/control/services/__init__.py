"""What the control process decides and writes, apart from its doors."""
