/** The layer table of the architecture: what may import what. Checked by `npm run layers`. */

/**
 * Room -> rooms that it may import, besides itself: packages by their names, the kernel's folders of `src` by theirs.
 * Packages that use the kernel import its `doors`.
 */
const ALLOWED = {
  base: [],
  text: ['base'],
  gguf: ['base'],
  parquet: ['base'],
  host: ['base'],
  'tfjs-onnxruntime': ['base'],
  live: ['base', 'host'],
  data: ['base', 'parquet', 'tfjs-onnxruntime', 'text', 'host', 'live'],
  envs: ['base', 'tfjs-onnxruntime', 'data', 'text', 'host', 'live'],
  modules: ['base', 'tfjs-onnxruntime', 'data', 'text', 'gguf', 'host', 'live'],
  objectives: ['base', 'tfjs-onnxruntime', 'data'],
  collectors: ['base', 'tfjs-onnxruntime', 'data', 'text', 'envs', 'modules', 'objectives', 'host', 'live'],
  learners: ['base', 'tfjs-onnxruntime', 'data', 'text', 'modules', 'objectives', 'collectors', 'host', 'live'],
  run: [
    'base',
    'tfjs-onnxruntime',
    'data',
    'text',
    'envs',
    'modules',
    'objectives',
    'collectors',
    'learners',
    'host',
    'live',
  ],
  tools: ['base', 'host', 'text', 'tfjs-onnxruntime', 'doors'],
  agents: ['base', 'text', 'tfjs-onnxruntime', 'tools', 'doors'],
  tracking: ['base', 'host', 'doors'],
  serve: ['base', 'host', 'text', 'tfjs-onnxruntime', 'tinker', 'doors'],
  tinker: ['base', 'host', 'text', 'tfjs-onnxruntime', 'doors'],
  cluster: ['base', 'host', 'tfjs-onnxruntime', 'doors'],
  view: ['base', 'parquet', 'host', 'tfjs-onnxruntime', 'text', 'doors'],
  games: ['base', 'parquet', 'host', 'tfjs-onnxruntime', 'text', 'doors', 'testing', 'tracking', 'agents'],
  bench: ['base', 'host', 'tfjs-onnxruntime', 'doors'],
  testing: ['base', 'tfjs-onnxruntime', 'text', 'doors'],
  cli: ['base', 'tfjs-onnxruntime', 'data', 'text', 'modules', 'collectors', 'learners', 'run', 'host', 'live'],
}

/** Package of npm -> rooms, or files of them, that may import it. */
const PACKAGES = {
  'onnxruntime-node': ['tfjs-onnxruntime/onnxruntime/binding'],
  '@huggingface/tokenizers': ['text/tokenizer/pattern'],
  tokenizers: ['text/tokenizer/native'],
  '@huggingface/jinja': ['text/jinja'],
  immutable: ['data', 'text', 'objectives', 'collectors', 'cluster/queues'],
  commander: ['cli', 'doors/command'],
  jiti: ['live/userModules'],
  yaml: ['data/codecs/yamlText'],
  'cli-progress': ['cli', 'games/commands'],
  'fast-check': ['testing', 'games/testing'],
  hyparquet: ['parquet'],
  'hyparquet-compressors': ['parquet', 'view/foreign/zip'],
  'hyparquet-writer': ['parquet'],
  zod: [
    'live/userModules',
    'data',
    'text',
    'envs',
    'modules',
    'collectors',
    'learners',
    'run',
    'tracking',
    'serve',
    'tinker',
    'view',
    'cli/recipe',
    'cli/remoteTraining',
    'index',
    'games',
    'cluster',
    'tools',
  ],
  hono: ['serve'],
  '@hono/node-server': ['host/httpServer'],
  ws: ['host/webSockets'],
  '@redis/client': ['cluster/queues/redisConnection'],
  'prom-client': ['serve/metrics', 'tracking/prometheus'],
  '@opentelemetry/api': ['tracking/openTelemetry'],
  '@modelcontextprotocol/sdk': ['tools/tools/mcp'],
  'playwright-core': ['tools/tools/browser'],
  minisearch: ['tools/tools/localIndex'],
  typescript: ['tools/tools/documentedTool'],
  'quickjs-emscripten': ['tools/tools/javascript'],
  '@cortex-js/compute-engine': ['envs/rewards/math'],
  eld: ['envs/rewards/ifEval'],
  'chess.js': ['games/arena/config/games', 'tools/worlds/chess'],
  undici: ['host/transport'],
  'eventsource-parser': ['host/transport'],
}

const rooms = Object.keys(ALLOWED)

/** Rooms that are packages, below `packages`. */
const PACKAGED = [
  'base',
  'host',
  'text',
  'tfjs-onnxruntime',
  'testing',
  'games',
  'tracking',
  'bench',
  'view',
  'gguf',
  'parquet',
  'cluster',
  'serve',
  'tinker',
  'tools',
  'agents',
]

/** Returns the folder of a room's sources, or a file below it, as it begins: `text/jinja` is `packages/text/src/jinja`. */
const pathOf = (place) => {
  if (place === 'doors') return 'src/(doors|index[.]ts$)'
  const [room, ...rest] = place.split('/')
  return [...(PACKAGED.includes(room) ? ['packages', room, 'src'] : ['src', room]), ...rest].join('/')
}

/** All sources. */
const SOURCES = '^(src|packages/[^/]+/src)/'

export default {
  forbidden: [
    { name: 'no-cycles', severity: 'error', from: { path: SOURCES }, to: { circular: true } },
    {
      name: 'no-unknown',
      severity: 'error',
      from: { path: SOURCES },
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
      from: { path: '^packages/base/src' },
      to: { dependencyTypes: ['npm'], pathNot: 'node_modules/fp-ts' },
    },
    {
      name: 'node-at-the-edge',
      comment:
        'only host, live, the command line and the door to the native library touch Node; the report reads assets of a package',
      severity: 'error',
      from: {
        path: SOURCES,
        pathNot:
          '^(src/(live|cli|run/report/reportAssets)|packages/(base/src/host/|host/src/|serve/src/commands|games/src/(commands|arena/report/page)|bench/src/commands|tfjs-onnxruntime/src/(onnxruntime/binding|profile/(profiler|sessions))|tools/src/(processes|sandbox)/|tracking/src/command|view/src/(commands|server)))',
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
    {
      name: 'without-the-kernel',
      comment: 'the kernel is an optional peer of these packages: only these parts of them need it',
      severity: 'error',
      from: {
        path: '^packages/(serve|tinker)/src/',
        pathNot: '^packages/(serve/src/(environments|openEnv/|rewards/|commands)|tinker/src/(learner|server|command))',
      },
      to: { path: '^(src|packages/tfjs-onnxruntime/src)/' },
    },
    ...rooms.map((room) => ({
      name: `layer-${room}`,
      comment: `${room} may import ${ALLOWED[room].join(', ') || 'nothing'}`,
      severity: 'error',
      from: { path: `^${pathOf(room)}/`, pathNot: '^src/cli/recipeFile' }, // recipes import all of Tandem
      to: { path: SOURCES, pathNot: `^(${[room, ...ALLOWED[room]].map(pathOf).join('|')})(/|$)` },
    })),
    {
      name: 'front-doors',
      comment: 'a package is imported by its name, and by what its package.json exports',
      severity: 'error',
      from: { path: '^(src|packages/([^/]+)/src)/' },
      to: {
        path: '^packages/',
        pathNot:
          '^packages/($2/|[^/]+/src/(host/)?index[.]ts$|(tfjs-onnxruntime/src/(scope|profile/index)|tinker/src/server)[.]ts$)',
      },
    },
    ...Object.entries(PACKAGES).map(([name, allowed]) => ({
      name: `package-${name}`,
      severity: 'error',
      from: { path: SOURCES, pathNot: `^(${allowed.map(pathOf).join('|')})` },
      to: { path: `node_modules/${name}/` },
    })),
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['tandem-source', 'import', 'require', 'node', 'default', 'types'],
    },
  },
}
