/** Tools that read and change the files of a conversation in the sandbox. */
import { checkOptions, type Ids, type Sandbox, type SandboxLimits } from '@tandem-rl/base'
import { liveIds } from '@tandem-rl/base/host'
import type { Task } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import { FILE_TOOLS_OPTIONS } from '../optionKinds.js'
import { type ToolEnvironment, toolEnvironment } from '../resources/toolEnvironment.js'
import { liveSandbox } from '../sandbox/liveSandbox.js'
import { truncated } from './clipped.js'
import { type FileRequest, type FileSession, fileResource, seeded } from './fileSession.js'
import { type Tool, tool, toolFailure } from './tool.js'

export interface FileToolsOptions {
  /** Default: its own bubblewrap sandbox. */
  readonly sandbox?: Sandbox
  readonly limits?: Partial<SandboxLimits>
  /** Returns the initial files of a conversation, by relative path. Default: no files. */
  readonly files?: (task: Task | undefined) => Readonly<Record<string, string>>
  /** Maximum number of concurrent conversations with files. Default 8. */
  readonly poolSize?: number
  /** Maximum characters of a result; a marker counts the omitted ones. Default 10,000. */
  readonly maxLength?: number
  readonly ids?: Ids
}

const path = z.string().min(1).max(1000).describe('relative to the folder of the conversation')

/** A tool by its operation. */
interface FileTool {
  readonly op: FileRequest['op']
  readonly description: string
  readonly parameters: z.ZodRawShape
}

const TOOLS: Readonly<Record<string, FileTool>> = {
  read_file: {
    op: 'read',
    description: 'Reads a file, with the numbers of its lines.',
    parameters: { path, start: z.number().int().min(1).default(1), end: z.number().int().min(1).optional() },
  },
  edit_file: {
    op: 'edit',
    description: 'Replaces a text that occurs once in a file.',
    parameters: { path, old: z.string(), new: z.string() },
  },
  create_file: { op: 'create', description: 'Creates a file.', parameters: { path, text: z.string() } },
  list_files: { op: 'list', description: 'Lists all files of a folder.', parameters: { path: path.default('.') } },
  grep_files: {
    op: 'grep',
    description: 'Finds lines that a regular expression matches.',
    parameters: { pattern: z.string().max(1000), path: path.default('.') },
  },
  undo_edit: { op: 'undo', description: 'Undoes the last change of a file.', parameters: { path } },
  run_python: { op: 'python', description: 'Runs a Python file and returns what it prints.', parameters: { path } },
  run_shell_command: {
    op: 'shell',
    description: 'Runs a shell command in the folder and returns what it prints.',
    parameters: { command: z.string().max(100_000) },
  },
}

/**
 * Makes the tools of a software engineer: `read_file`, `edit_file`, `create_file`, `list_files`,
 * `grep_files`, `undo_edit`, `run_python` and `run_shell_command`. They share one sandbox per
 * conversation, which is closed after the reward. `sweReward` runs tests in `environment`.
 *
 * Errors   calls return `Left(ToolFailure)`: `failed` for an invalid path or edit, with the reason;
 *          `infrastructure` if the sandbox is not available or a program ended it.
 * Effects  processes in the sandbox, until `environment.close()`.
 * Source   AgentFly's file tools, which work on the files of the user.
 *
 * @example
 * fileTools().tools.map(({ name }) => name)[0] // 'read_file'
 */
export const fileTools = (
  options: FileToolsOptions = {},
): { readonly tools: readonly Tool[]; readonly environment: ToolEnvironment<FileSession> } => {
  checkOptions('fileTools', options, FILE_TOOLS_OPTIONS)
  const { sandbox = liveSandbox(), limits = {}, files, poolSize = 8, maxLength = 10_000, ids = liveIds } = options
  const environment = toolEnvironment(fileResource(sandbox, { limits, ids }), {
    poolSize,
    prepare: (session, episode) => seeded(session, files?.(episode?.task) ?? {}, new AbortController().signal),
  })
  const made = Object.entries(TOOLS).map(([name, { op, description, parameters }]) =>
    tool({
      name,
      description,
      parameters,
      initial: null,
      environment,
      run:
        (args, { environment: session, signal }) =>
        async () => {
          const result = await session.ask({ ...args, op }, signal)()
          if (E.isLeft(result)) return E.left(toolFailure(name, 'infrastructure', result.left))
          return E.isLeft(result.right)
            ? E.left(toolFailure(name, 'failed', result.right.left))
            : E.right({ content: truncated(result.right.right, maxLength), state: null })
        },
    }),
  )
  return { tools: made, environment }
}
