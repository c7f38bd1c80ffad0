"""Operations on whole collections while they are in use: import, copy, export, upgrade."""
