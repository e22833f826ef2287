"""HTTP for every role: guarded routes, errors as answers, help and metrics pages, limits of requests.

FastAPI and uvicorn stay here.
"""
