// What an instance of the kernel computes: TM x TN results, TK steps at a time.
const tunable int TM = {128, 64};
const tunable int TN = {128, 64};
const tunable int TK = {32, 64};
