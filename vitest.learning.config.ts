import { defineConfig } from 'vitest/config'

/** As in CI: without variations of what the others show, and two at a time. */
const IS_SHORT = process.env.LEARNING === 'short'

const VARIATIONS = ['test/learning/algorithms.test.ts', 'test/learning/remoteGrpo.test.ts']

/** Long runs: learning with the shipped model, kill and resume at full size, and the search for leaks. */
export default defineConfig({
  test: {
    include: ['test/learning/**/*.test.ts', 'test/soak/**/*.test.ts'],
    exclude: IS_SHORT ? VARIATIONS : [],
    setupFiles: ['test/kit/setup.ts'],
    env: { FC_SEED: '20261121' },
    pool: 'forks',
    maxWorkers: IS_SHORT ? 2 : 1,
    testTimeout: 1_800_000,
    hookTimeout: 1_800_000,
  },
})
