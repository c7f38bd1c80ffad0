"""The read path. The stages, in the order in which `pipeline.py` calls them:

terms      query -> BM25 terms, probes, global idf
embed      query -> one vector per distinct model, concurrently
retrieve   candidates and their exact leg scores per collection, in parallel
calibrate  leg scores of many collections -> hits with relevance
present    cut, passages, grouping of chunks, statuses -> SearchPage
"""
