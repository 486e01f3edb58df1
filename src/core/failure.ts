/** Expected failures as values. Each is a tagged record; `describe` puts any of them into one sentence that says what to do. */

/** A `config.json` that cannot be used. */
export interface ConfigFailure {
  readonly _tag: 'ConfigFailure'
  readonly reason: string
}

/** Bytes or text that are not what their format promises. */
export interface FormatFailure {
  readonly _tag: 'FormatFailure'
  readonly format: string
  readonly reason: string
}

/** A chat template that is invalid, raises an exception, or cannot do what is asked. */
export interface TemplateFailure {
  readonly _tag: 'TemplateFailure'
  readonly reason: string
}

/** The file system refused. */
export interface FileFailure {
  readonly _tag: 'FileFailure'
  readonly operation: string
  readonly path: string
  /** The system's error code, such as ENOENT or ENOSPC. */
  readonly code: string
  readonly reason: string
}

/** A model folder that cannot be used: which file, and why. */
export interface ModelFailure {
  readonly _tag: 'ModelFailure'
  readonly folder: string
  readonly file: string
  readonly reason: string
}
