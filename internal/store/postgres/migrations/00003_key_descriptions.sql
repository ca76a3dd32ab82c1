-- SPDX-License-Identifier: Apache-2.0
-- +goose Up

ALTER TABLE access_keys ADD COLUMN description text NOT NULL DEFAULT '';
