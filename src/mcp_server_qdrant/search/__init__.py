"""The read path. The stages, in the order in which `pipeline.py` calls them:

algorithm  which legs are searched, and their shares
terms      query -> BM25 terms, probes, global idf
spelling   unknown words -> known ones; for fuzzy search, words like those asked for
embed      query -> one vector per distinct model, concurrently
retrieve   candidates and their exact leg scores per collection, in parallel
calibrate  leg scores of many collections -> hits with relevance
boost      preferred collections
group      chunks of one document -> its best
decay      age
fuzzy      title or text like the query
present    cut, passages, notes -> SearchPage
"""
