"""Evidence from training: variants of the bundled recipes at one small budget, one evaluation of all, tables to ship.

What a claim about training needs (masks, mask rates, initialisation, joint training, speed) cannot be measured in the default run;
``python -m studies.evidence`` measures it once, and the tables go beside the bundled models.
"""
