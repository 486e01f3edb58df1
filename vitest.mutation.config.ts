import { defineConfig } from 'vitest/config'

/** For `npm run mutation`: the tests of TensorDicts alone, with few samples for each law and one fixed seed. */
export default defineConfig({
  test: {
    include: ['test/data/tensorDict/**/*.test.ts', 'test/testing/tensorDictLaws*.test.ts'],
    setupFiles: ['test/kit/setup.ts'],
    env: { FC_SEED: '20261121', FC_RUNS: '8' },
    pool: 'forks',
    testTimeout: 60_000,
  },
})
