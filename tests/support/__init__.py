"""What the tests stand on: a whole stack on moto, AWS's harsher rules, and the laptop cloud."""
