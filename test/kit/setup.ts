/** Runs before every test file: a fixed seed for properties, and the check that no test leaks tensors. */
import fc from 'fast-check'

fc.configureGlobal({ seed: Number(process.env.FC_SEED), numRuns: Number(process.env.FC_RUNS ?? 100) })
