/** Diagnosis of the log of a server that failed to start. */

/** The reason why a worker did not start. */
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
  /** The advice to the user. */
  readonly advice: string
}

/** The signs in a log, the most specific first, because one problem may cause others. */
const SIGNS: readonly Sign[] = [
  {
    kind: 'port',
    pattern: /address already in use|EADDRINUSE|the port is in use/i,
    advice: 'the port is taken: leave `port` out to use a free one',
  },
  {
    kind: 'memory',
    pattern:
      /out of memory|OutOfMemoryError|No available memory for the cache blocks|less than desired GPU memory|Cannot allocate memory|not enough memory|larger than the available KV cache memory/i,
    advice:
      'memory ran out: lower gpuMemoryUtilization, maxModelLen or maxNumSeqs, or stop other programs on the device',
  },
  {
    kind: 'arguments',
    pattern: /unrecognized arguments|error: argument|unknown option|invalid choice|error: option/i,
    advice: 'this version does not support one of the engine arguments: see `vllm serve --help=all`',
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
    advice: 'the model cannot be loaded: use a folder with config.json and *.safetensors, or a name on a reachable hub',
  },
]

/**
 * Returns the likely cause of a failed start from its log.
 *
 * @example
 * diagnose(['torch.OutOfMemoryError: CUDA out of memory']).kind // 'memory'
 */
export const diagnose = (log: readonly string[]): { readonly kind: WorkerProblem; readonly advice: string | null } => {
  const found = SIGNS.find(({ pattern }) => log.some((line) => pattern.test(line)))
  return found === undefined ? { kind: 'exit', advice: null } : { kind: found.kind, advice: found.advice }
}
