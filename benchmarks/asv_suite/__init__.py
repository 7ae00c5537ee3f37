"""What asv follows from commit to commit; asv imports every module in here, so none may import torch."""
