"""What users and perdure itself test with: virtual time, seeded chance, a simulated disk."""
