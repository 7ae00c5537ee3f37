"""What asv times: it imports every file of this folder."""
