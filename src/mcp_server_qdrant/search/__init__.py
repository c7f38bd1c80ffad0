"""The read path: understand, retrieve, rank, reorder, present. Nothing here writes.

pipeline    the read path, top to bottom
understand  the request -> a query; words/ has its terms, corrections and tags
retrieve    the candidates of all collections, their scores and their payloads
ranking     the ranking steps in their order; relevance has hits, and what they are worth
rerank      the best hits scored by a second model, where asked for
succession  the newest of the texts about a subject first; versions shows texts as they were
present     hits -> page: passages, notes, explanations; listing does so without a query
elsewhere   better matches outside the collections that were searched
"""
