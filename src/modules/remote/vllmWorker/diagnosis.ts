/** What the log of a server that did not start means. */

/** Why a worker is not there. */
export type WorkerProblem =
  | 'executable'
  | 'arguments'
  | 'memory'
  | 'port'
  | 'model'
  | 'package'
  | 'timeout'
  | 'cancelled'
  | 'exit'

interface Sign {
  readonly kind: WorkerProblem
  readonly pattern: RegExp
  /** What to do. */
  readonly advice: string
}

/** More telling ones first: what follows from another problem comes after it. */
const SIGNS: readonly Sign[] = [
  {
    kind: 'port',
    pattern: /address already in use|EADDRINUSE|the port is in use/i,
    advice: 'the port is taken: leave `port` out to have a free one',
  },
  {
    kind: 'memory',
    pattern:
      /out of memory|OutOfMemoryError|No available memory for the cache blocks|less than desired GPU memory|Cannot allocate memory|not enough memory|larger than the available KV cache memory/i,
    advice: 'memory ran out: lower gpuMemoryUtilization, maxModelLen or maxNumSeqs, or end what else runs there',
  },
  {
    kind: 'arguments',
    pattern: /unrecognized arguments|error: argument|unknown option|invalid choice|error: option/i,
    advice: 'this version does not take one of the engine arguments: see `vllm serve --help=all`',
  },
  {
    kind: 'package',
    pattern: /ModuleNotFoundError|No module named|ImportError|Cannot find module/i,
    advice: 'a package is missing where the server is installed',
  },
  {
    kind: 'model',
    pattern:
      /does not appear to have a file named|is not a local folder|Repo id must|RepositoryNotFound|cannot be used|No such file or directory(?:(?!No such file).)*config\.json|couldn't connect to/i,
    advice:
      'the model cannot be loaded: give a folder with config.json and *.safetensors, or a name on the hub that can be reached',
  },
]

/**
 * The likely cause of what a log says.
 *
 * @example
 * diagnose(['torch.OutOfMemoryError: CUDA out of memory']).kind // 'memory'
 */
export const diagnose = (log: readonly string[]): { readonly kind: WorkerProblem; readonly advice: string | null } => {
  const found = SIGNS.find(({ pattern }) => log.some((line) => pattern.test(line)))
  return found === undefined ? { kind: 'exit', advice: null } : { kind: found.kind, advice: found.advice }
}
