/** The layer table of the architecture: what may import what. Checked by `npm run layers`. */

/** Folder -> folders of `src` that it may import, besides itself. */
const ALLOWED = {
  core: [],
  live: ['core'],
  engine: ['core'],
  text: ['core', 'live'],
  data: ['core', 'engine', 'text', 'live'],
  envs: ['core', 'engine', 'data', 'text', 'live'],
  modules: ['core', 'engine', 'data', 'text', 'live'],
  objectives: ['core', 'engine', 'data'],
  collectors: ['core', 'engine', 'data', 'text', 'envs', 'modules', 'objectives', 'live'],
  agents: ['core', 'engine', 'data', 'text', 'envs', 'modules', 'collectors', 'live'],
  run: ['core', 'engine', 'data', 'text', 'envs', 'modules', 'objectives', 'collectors', 'live'],
  tracking: ['core', 'data', 'text', 'run', 'live'],
  arena: ['core', 'engine', 'data', 'text', 'envs', 'modules', 'run', 'tracking', 'bench', 'live'],
  serve: ['core', 'data', 'text', 'live', 'modules'],
  bench: ['core', 'engine', 'data', 'envs', 'live'],
  testing: ['core', 'engine', 'data', 'text', 'envs', 'collectors'],
  cli: [
    'core',
    'engine',
    'data',
    'text',
    'modules',
    'collectors',
    'run',
    'tracking',
    'serve',
    'bench',
    'arena',
    'live',
  ],
}

/** Package -> folders that may import it. */
const PACKAGES = {
  'onnxruntime-node': ['engine/onnxruntime/binding'],
  '@huggingface/tokenizers': ['text/tokenizer/pattern'],
  tokenizers: ['text/tokenizer/native'],
  '@huggingface/jinja': ['text/jinja'],
  immutable: ['data', 'text', 'objectives', 'collectors'],
  commander: ['cli'],
  jiti: ['cli/recipeFile'],
  yaml: ['cli/recipeFlags', 'modules/remote/chat/policyServers'],
  'cli-progress': ['cli'],
  'fast-check': ['testing'],
  hyparquet: ['data/codecs/parquet'],
  'hyparquet-compressors': ['data/codecs/parquet'],
  'hyparquet-writer': ['data/codecs/parquet'],
  zod: [
    'data',
    'text',
    'envs',
    'modules',
    'collectors',
    'run',
    'tracking',
    'arena',
    'serve',
    'cli/recipe',
    'live/lock',
    'index',
  ],
  hono: ['serve'],
  '@hono/node-server': ['live/httpServer'],
  '@redis/client': ['collectors/queues/redisConnection'],
  'prom-client': ['serve/metrics', 'tracking/prometheus'],
  '@opentelemetry/api': ['tracking/openTelemetry'],
  '@modelcontextprotocol/sdk': ['envs/tools/mcp'],
  'playwright-core': ['envs/tools/browser'],
  keyv: ['envs/tools/retrieval'],
  'quickjs-emscripten': ['envs/tools/javascript'],
  '@cortex-js/compute-engine': ['envs/rewards/math'],
  eld: ['envs/rewards/ifEval'],
  'chess.js': ['envs/games/chess'],
  undici: ['live/transport'],
  'eventsource-parser': ['live/transport'],
}

const folders = Object.keys(ALLOWED)

export default {
  forbidden: [
    { name: 'no-cycles', severity: 'error', from: { path: '^src' }, to: { circular: true } },
    {
      name: 'no-unknown',
      severity: 'error',
      from: { path: '^src' },
      to: { couldNotResolve: true, pathNot: '^@tensorflow/' },
    },
    {
      name: 'no-barrels-inside',
      comment: 'doors are for users; inside, import the file that has the name',
      severity: 'error',
      from: { path: '^src', pathNot: '^src/(index|doors/|cli/recipeFile)' },
      to: { path: '^src/(index\\.ts$|doors/)' },
    },
    {
      name: 'core-is-pure',
      severity: 'error',
      from: { path: '^src/core' },
      to: { dependencyTypes: ['npm'], pathNot: 'node_modules/fp-ts' },
    },
    {
      name: 'node-at-the-edge',
      comment:
        'only live, the command line and the door to the native library touch Node; the report reads assets of a package',
      severity: 'error',
      from: {
        path: '^src',
        pathNot: '^src/(live|cli|engine/(onnxruntime/binding|register)|run/report)',
      },
      to: { dependencyTypes: ['core'] },
    },
    {
      name: 'decoder-alone',
      comment: 'the decoder computes logits: sampling, scheduling and wire formats use it, not the reverse',
      severity: 'error',
      from: { path: '^src/modules/transformer/' },
      to: { path: '^src/(modules/(generation|remote)/|data/(generation|engineClient|policy)\\.ts$)' },
    },
    ...folders.map((folder) => ({
      name: `layer-${folder}`,
      comment: `${folder} may import ${ALLOWED[folder].join(', ') || 'nothing'}`,
      severity: 'error',
      from: { path: `^src/${folder}/`, pathNot: '^src/cli/recipeFile' }, // recipes import all of Tandem
      to: {
        path: '^src/',
        pathNot: `^src/(${[folder, ...ALLOWED[folder]].join('|')})/`,
      },
    })),
    ...Object.entries(PACKAGES).map(([name, allowed]) => ({
      name: `package-${name}`,
      severity: 'error',
      from: { path: '^src', pathNot: `^src/(${allowed.join('|')})` },
      to: { path: `node_modules/${name}/` },
    })),
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'require', 'node', 'default', 'types'],
    },
  },
}
