import { defineConfig } from 'vitest/config'

/** One seed for every property test: CI sets it, and a failure prints it. */
const seed = process.env.FC_SEED ?? '20261121'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    exclude: ['test/learning/**', 'test/soak/**', 'test/engines/**', 'node_modules/**'],
    setupFiles: ['test/kit/setup.ts'],
    env: { FC_SEED: seed },
    pool: 'forks',
    maxWorkers: 2,
    testTimeout: 120_000,
    typecheck: { enabled: true, include: ['test/types/**/*.test-d.ts'], tsconfig: './tsconfig.json' },
  },
})
