import { defineConfig } from 'vitest/config'

/** The policy suite against a real server, which `npm run verify -- engines` starts. */
export default defineConfig({
  test: {
    include: ['test/engines/**/*.test.ts'],
    globalSetup: 'test/kit/compiledFolders.ts',
    setupFiles: ['test/kit/setup.ts'],
    env: { FC_SEED: '20261121' },
    pool: 'forks',
    maxWorkers: 1,
    testTimeout: 300_000,
    hookTimeout: 300_000,
  },
})
