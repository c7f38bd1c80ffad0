"""The read path: understand, retrieve, rank, reread, present. Nothing here writes.

pipeline   the read path, top to bottom
query      what travels along it: the request as understood, what was found, the ranked hits
retrieve   the candidates of all collections, their scores and their texts
ranking    the ranking steps in their order; relevance has some of them
words/     query -> terms, corrections, tags
rerank     the best hits scored by a second model, where asked for
present    hits -> page: passages, notes, explanations
"""
