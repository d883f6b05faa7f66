// @ts-check
// A mail server from npm, which wants a user and a password, and the mails that it has taken, as a mail program reads them.

import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { simpleParser } from 'mailparser';
import { SMTPServer } from 'smtp-server';

/** @typedef {import('smtp-server').SMTPServerOptions} Options */
/**
 * @typedef {object} Mail
 * @property {string} to the recipient of the envelope
 * @property {string} from the sender of the envelope
 * @property {string} subject
 * @property {string} id
 * @property {string | undefined} inReplyTo
 * @property {string} text
 * @property {string} html
 */

/** @typedef {'taken' | 'refused' | 'taken unanswered'} MailAnswer */

/** The one account. Its password needs to be encoded in a URL. */
const ACCOUNT = { user: 'fermata', password: 'p@ss/word:1' };

/** Makes a certificate for `localhost` that signs itself. */
function certificate() {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'fermata-mail-'));
  process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
  const [key, cert] = [path.join(folder, 'key.pem'), path.join(folder, 'cert.pem')];
  const names = ['-addext', 'subjectAltName=DNS:localhost', '-addext', 'basicConstraints=critical,CA:FALSE'];
  const subject = ['-subj', '/CN=localhost', ...names];
  const kind = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'];
  execFileSync('openssl', ['req', '-x509', ...kind, '-keyout', key, '-out', cert, ...subject], {
    stdio: 'pipe',
  });
  return { key: readFileSync(key), cert: readFileSync(cert), file: cert };
}

export class MailServer {
  /** Everything that was taken, repetitions included. */
  /** @type {Mail[]} */
  mails = [];
  /** Sessions that were refused because of a wrong user or password. */
  refused = 0;
  /** Chooses the answer to a mail, which may be taken although the answer is missing. */
  /** @type {(mail: Mail) => MailAnswer | Promise<MailAnswer>} */
  answers = () => 'taken';
  /** The file with the certificate that a client has to trust. */
  /** @type {string | undefined} */
  certificate;
  #server;

  /** @param {{ tls?: boolean }} [options] whether connections are encrypted from the beginning */
  constructor({ tls = false } = {}) {
    /** @type {Options} */
    const common = {
      // The guide allows an account without TLS in a private network.
      allowInsecureAuth: true,
      disabledCommands: tls ? [] : ['STARTTLS'],
      onAuth: ({ username, password }, _, callback) => {
        if (username === ACCOUNT.user && password === ACCOUNT.password)
          return callback(null, { user: username });
        this.refused += 1;
        return callback(new Error('a wrong user or password'));
      },
      onData: (stream, session, callback) => {
        void this.#take(stream, session).then(
          (answer) => {
            if (answer === 'taken') callback();
            if (answer === 'refused') callback(Object.assign(new Error('try later'), { responseCode: 451 }));
          },
          (error) => callback(error),
        );
      },
    };
    const own = tls ? certificate() : undefined;
    this.certificate = own?.file;
    this.#server = new SMTPServer(own ? { ...common, secure: true, key: own.key, cert: own.cert } : common);
    // A client that is killed breaks its connection.
    this.#server.on('error', () => {});
  }

  /** @param {{ tls?: boolean }} [options] */
  static async start(options) {
    const mail = new MailServer(options);
    await new Promise((/** @type {(value: void) => void} */ resolve) => {
      mail.#server.listen(0, 'localhost', resolve);
    });
    return mail;
  }

  /** The URL of the server, with the account. */
  get url() {
    const address = this.#server.server.address();
    if (address === null || typeof address === 'string') throw new Error('the mail server does not listen');
    const scheme = this.certificate === undefined ? 'smtp' : 'smtps';
    return `${scheme}://${ACCOUNT.user}:${encodeURIComponent(ACCOUNT.password)}@localhost:${address.port}`;
  }

  /** @param {string} address */
  to(address) {
    return this.mails.filter(({ to }) => to === address);
  }

  async stop() {
    await new Promise((/** @type {(value: void) => void} */ resolve) => this.#server.close(() => resolve()));
  }

  /**
   * @param {import('smtp-server').SMTPServerDataStream} stream
   * @param {import('smtp-server').SMTPServerSession} session
   */
  async #take(stream, { envelope }) {
    const parsed = await simpleParser(stream);
    const mail = {
      to: envelope.rcptTo.map(({ address }) => address).join(','),
      from: envelope.mailFrom === false ? '' : envelope.mailFrom.address,
      subject: parsed.subject ?? '',
      id: parsed.messageId ?? '',
      inReplyTo: parsed.inReplyTo,
      text: parsed.text ?? '',
      html: parsed.html || '',
    };
    const answer = await this.answers(mail);
    if (answer !== 'refused') this.mails.push(mail);
    return answer;
  }
}

/**
 * Returns the links of a mail that decide.
 *
 * @param {Mail} mail
 */
export function linksOf({ text }) {
  const [, approve] = /^Approve: (\S+)$/m.exec(text) ?? [];
  const [, deny] = /^Deny: (\S+)$/m.exec(text) ?? [];
  if (approve === undefined || deny === undefined) throw new Error(`no links in ${text}`);
  return { approve, deny };
}
