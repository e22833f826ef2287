"""HTTP for every role: guarded routes, error responses, help and metrics pages, request limits.

The only package that uses FastAPI and uvicorn.
"""
