// Package api is the HTTP face of Holdfast: routes on one screen (routes.go), strict
// reading of what comes in, one writer of problems (problem.go), and handlers that
// decode, make one service call and answer.
//
// It decides nothing about purchases or money: package purchase and package account do.
// It never imports package jobs, and only cmd imports it.
package api
