"""What a search finds: how names fit the words that a person types, and the pages and actions with their synonyms."""
