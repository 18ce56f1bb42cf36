"""The two ways into AdminService: gRPC and the compatible HTTP."""
