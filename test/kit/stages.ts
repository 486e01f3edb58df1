/** Test files of the long stage, `npm run learning`. Everything else runs in `npm test`. */
export const LONG_STAGE = [
  ...['cli', 'programs', 'recipes', 'learning', 'soak'].map((folder) => `test/${folder}/**/*.test.ts`),
  'test/view/page/**/*.test.ts',
  'test/site/**/*.test.ts',
  'test/regularExpressions.test.ts',
  'test/live/sandbox/escapes.test.ts',
  'test/live/sandbox/heldMemory.test.ts',
  'test/engine/defaultBackend.test.ts',
  'test/engine/select.test.ts',
  'test/engine/webGpu.test.ts',
  'test/envs/rewards/codeTests.test.ts',
  'test/envs/tools/mcpStdio.test.ts',
  'test/run/kills.test.ts',
  'test/run/vLLMSampler.test.ts',
  'test/run/wholeRun.test.ts',
  'test/run/workers.test.ts',
  'test/collectors/rollouts/manyToolConversations.test.ts',
]
