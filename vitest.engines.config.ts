import { defineConfig } from 'vitest/config'
import { SOURCES, SOURCES_ENV } from './test/kit/sources.js'

/** The policy suite against a real server, which `npm run verify -- engines` starts. */
export default defineConfig({
  ...SOURCES,
  test: {
    include: ['test/engines/**/*.test.ts'],
    globalSetup: 'test/kit/compiledFolders.ts',
    setupFiles: ['test/kit/setup.ts'],
    env: { FC_SEED: '20261121', ...SOURCES_ENV },
    pool: 'forks',
    maxWorkers: 1,
    testTimeout: 300_000,
    hookTimeout: 300_000,
  },
})
