"""The read path: understand, retrieve, rank, reread, present. Nothing here writes.

The stages, in the order in which `pipeline.py` calls them (those of `steps/` are pure):

algorithm  which legs are searched, and their shares
terms      query -> BM25 terms, probes, global idf
spelling   unknown words -> known ones; for fuzzy search, words like those asked for
embed      query -> one vector per distinct model, concurrently
tags       words that are tags; later what they give a hit
retrieve   candidates and their exact leg scores per collection, in parallel
calibrate  leg scores of many collections -> hits with relevance
boost      preferred collections
titles     what words in a title give a hit
group      chunks of one document -> its best
decay      age
diversity  the same passage once; unlike passages first, where asked for
rerank     the best hits read again by a second model, where asked for
fuzzy      titles and texts spelled like the query, where nothing was reranked
present    cut, passages, notes -> SearchPage
"""
