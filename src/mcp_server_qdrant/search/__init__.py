"""The read path. The stages, in the order in which `pipeline.py` calls them:

terms      query -> BM25 terms, probes, global idf
embed      query -> one vector per distinct model, concurrently
retrieve   candidates and their exact leg scores per collection, in parallel
calibrate  leg scores of many collections -> hits with relevance
group      chunks of one document -> its best
present    cut, passages, notes -> SearchPage
"""
