import { defineConfig } from 'vitest/config'

/** Left out where LEARNING is `short`, as in CI: variations of what the others show. */
const VARIATIONS = ['test/learning/algorithms.test.ts', 'test/learning/remoteGrpo.test.ts']

/** Long runs: learning with the shipped model, kill and resume at full size, and the search for leaks. One at a time. */
export default defineConfig({
  test: {
    include: ['test/learning/**/*.test.ts', 'test/soak/**/*.test.ts'],
    exclude: process.env.LEARNING === 'short' ? VARIATIONS : [],
    setupFiles: ['test/kit/setup.ts'],
    env: { FC_SEED: '20261121' },
    pool: 'forks',
    maxWorkers: 1,
    testTimeout: 1_800_000,
    hookTimeout: 1_800_000,
  },
})
