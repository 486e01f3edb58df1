/** Requests to the viewer about checkpoints, and the lines of their answers. */
import type { ModelLine } from '../../packages/view/src/modelProtocol.js'
import type { ModelRequest } from '../../packages/view/src/protocol.js'

type Line<T extends ModelLine['type']> = Extract<ModelLine, { readonly type: T }>

/** Sends a request as the page does. */
export const postLines = (
  { origin, run, request }: { readonly origin: string; readonly run: string; readonly request: ModelRequest },
  body: object,
  init: RequestInit = {},
): Promise<Response> =>
  fetch(`${origin}/api/runs/${run}/${request}`, {
    method: 'POST',
    headers: { origin, 'content-type': 'application/json' },
    body: JSON.stringify(body),
    ...init,
  })

/** Returns the lines of an answer. Throws if it does not end with success. */
export const linesOf = async (response: Response): Promise<readonly ModelLine[]> => {
  const text = await response.text()
  if (response.status !== 200) throw new Error(`${response.status}: ${text}`)
  const lines = text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as ModelLine) // the viewer's own lines
  const end = lines.at(-1)
  if (end?.type !== 'end' || end.reason !== null) throw new Error(JSON.stringify(end))
  return lines
}

/** Selects the lines of a type. */
export const linesOfType = <T extends ModelLine['type']>(lines: readonly ModelLine[], type: T): readonly Line<T>[] =>
  lines.filter((line): line is Line<T> => line.type === type)
