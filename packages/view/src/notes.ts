/** Names, tags, notes, labels and comments of people, kept in the run folder. */
import { type Files, orThrow, parseJsonAs } from '@tandem-rl/base'
import { z } from 'zod'
import type { Annotation, NoteRequest } from './protocol.js'

const LONGEST = 20_000

const word = z.string().min(1).max(200)

export const noteSchema: z.ZodType<NoteRequest> = z.strictObject({
  name: z.string().max(200).exactOptional(),
  note: z.string().max(LONGEST).exactOptional(),
  tags: z.array(word).max(50).exactOptional(),
})

export const annotationSchema = z.strictObject({
  labels: z.array(word).max(50),
  comment: z.string().max(LONGEST),
})

const annotationLine = annotationSchema.extend({ rollout: z.string() })

export type RunNote = NoteRequest

const notePath = (folder: string): string => `${folder}/note.json`
const annotationsPath = (folder: string): string => `${folder}/annotations.jsonl`

const textOf = async (files: Files, path: string): Promise<string> =>
  orThrow(await files.exists(path)()) ? orThrow(await files.readText(path)()) : ''

/** Reads the note of a run; a missing or malformed one is empty. */
export const readNote = async (files: Files, folder: string): Promise<RunNote> => {
  const parsed = parseJsonAs(noteSchema, await textOf(files, notePath(folder)))
  return parsed._tag === 'Right' ? parsed.right : {}
}

/** Writes fields of the note of a run; absent fields keep their value. */
export const writeNote = async (files: Files, folder: string, change: RunNote): Promise<void> => {
  const note = { ...(await readNote(files, folder)), ...change }
  orThrow(await files.write(notePath(folder), `${JSON.stringify(note, undefined, 2)}\n`)())
}

/** Reads the annotations of a run by rollout. The last line of a rollout wins. */
export const readAnnotations = async (files: Files, folder: string): Promise<ReadonlyMap<string, Annotation>> => {
  const annotations = new Map<string, Annotation>()
  for (const line of (await textOf(files, annotationsPath(folder))).split('\n')) {
    const parsed = parseJsonAs(annotationLine, line)
    if (parsed._tag === 'Right') {
      const { rollout, ...annotation } = parsed.right
      annotations.set(rollout, annotation)
    }
  }
  return annotations
}

/** Appends an annotation of a rollout. */
export const writeAnnotation = async (
  files: Files,
  folder: string,
  { rollout, annotation }: { readonly rollout: string; readonly annotation: Annotation },
): Promise<void> => {
  orThrow(await files.append(annotationsPath(folder), `${JSON.stringify({ rollout, ...annotation })}\n`)())
}
