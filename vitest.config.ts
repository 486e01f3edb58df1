import { defineConfig } from 'vitest/config'

/** One seed for every property test: CI sets it, and a failure prints it. */
const seed = process.env.FC_SEED ?? '20261121'

/** Limits are for what hangs, on a machine that is much slower and busier than this one: no test is to be ended by them while it works. */
export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    exclude: ['test/learning/**', 'test/soak/**', 'test/engines/**', 'node_modules/**'],
    setupFiles: ['test/kit/setup.ts'],
    env: { FC_SEED: seed },
    pool: 'forks',
    maxWorkers: 2,
    testTimeout: 300_000,
    hookTimeout: 300_000,
    expect: { poll: { timeout: 60_000 } },
    // This is `npm run typecheck`, and tells the types of the tests one by one: an error in any file of the project fails the run.
    typecheck: { enabled: true, include: ['test/types/**/*.test-d.ts'], tsconfig: './tsconfig.json' },
  },
})
