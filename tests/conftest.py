"""What holds for all tests: none depends on the clock, since the machine may be busy, and none on what an earlier run found."""

import hypothesis

hypothesis.settings.register_profile("reelmill", deadline=None, database=None)
hypothesis.settings.load_profile("reelmill")
